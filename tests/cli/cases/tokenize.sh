# Ids of a text; bytes come back whatever they are.
set -e
cp "$RANKS" ranks.tiktoken
inkjet tokenize --tokenizer ranks.tiktoken 'hello world'
printf 'hello world' | inkjet tokenize --tokenizer ranks.tiktoken
printf 'hello world' > file
inkjet tokenize --tokenizer ranks.tiktoken -f file
inkjet tokenize --tokenizer ranks.tiktoken --json -f <(printf 'hello \303\251 \377\000"\\\n')
inkjet tokenize --tokenizer ranks.tiktoken '' | od -c
inkjet tokenize --tokenizer ranks.tiktoken --json ''
# Spelled specials are ordinary text unless asked for.
inkjet tokenize --tokenizer ranks.tiktoken '<|end_message|>' | wc -w
inkjet tokenize --tokenizer ranks.tiktoken --no-special '<|end_message|>' | wc -w
# Bytes of every value, in an order that mixes valid and invalid characters, through both directions.
text=
for ((i = 0; i < 20000; i++)); do
  printf -v byte '\\x%02x' $((i * i * 7 / 3 % 256))
  text+=$byte
done
printf "$text" > bytes
inkjet tokenize --tokenizer ranks.tiktoken -f bytes | inkjet detokenize --tokenizer ranks.tiktoken | cmp - bytes
inkjet detokenize --tokenizer ranks.tiktoken 104 105 10
printf '104,105\n 10\t' | inkjet detokenize --tokenizer ranks.tiktoken
