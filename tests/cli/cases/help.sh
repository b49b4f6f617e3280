# The help of everything, as asked for: standard output, exit 0.
set -e
inkjet help
inkjet --help | cmp - <(inkjet help)
inkjet -h | cmp - <(inkjet help)
for command in run chat logits tokenize detokenize info bench serve; do
  printf -- '---------------- %s\n' "$command"
  inkjet "$command" --help
  inkjet "$command" -h | cmp - <(inkjet help "$command")
done
