# The manual page and the completion scripts are well formed, as far as the tools for it are installed.
set -e
inkjet man > inkjet.1
if command -v mandoc > /dev/null; then mandoc -T lint -W warning inkjet.1; fi
grep -c '^\.SS ' inkjet.1
inkjet completion bash > completion.bash
bash -n completion.bash
inkjet completion zsh > _inkjet
if command -v zsh > /dev/null; then zsh -n _inkjet; fi
head -1 _inkjet
# bash completes a command, an option and a word.
source ./completion.bash
complete_words() {
  COMP_WORDS=(inkjet "$@")
  COMP_CWORD=$#
  _inkjet inkjet "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  echo "${COMPREPLY[@]}"
}
complete_words to
complete_words run --to
complete_words run --kv b
complete_words info --te
complete_words help de
