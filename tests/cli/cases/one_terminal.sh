# Both streams on one terminal: what is said comes after the line of what was generated.
inkjet run -m "$MODEL" --ids 1,2,3 --ctx 4 -n 8 --ids-out 2>&1
: > empty.tiktoken
show inkjet tokenize --tokenizer empty.tiktoken hello
cp "$RANKS" ranks.tiktoken
printf 'eHl6enk= 700\n' > more && seq 265 699 | while read -r i; do printf '%s %d\n' "$(printf 'token%d' "$i" | base64)" "$i"; done | cat ranks.tiktoken - more > large.tiktoken
ln -s "$MODEL" model
show inkjet run -m model --tokenizer large.tiktoken xyzzy
