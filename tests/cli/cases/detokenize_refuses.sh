# Ids that are not ids.
cp "$RANKS" ranks.tiktoken
show inkjet detokenize --tokenizer ranks.tiktoken 104 x
show inkjet detokenize --tokenizer ranks.tiktoken 104 -5
show inkjet detokenize --tokenizer ranks.tiktoken 104 150000
show inkjet detokenize --tokenizer ranks.tiktoken 99999999999
for text in '104 x' '-1' '99999999999' '104 150000' '1.5'; do
  printf %s "$text" > ids
  show inkjet detokenize --tokenizer ranks.tiktoken < ids
done
printf '1\0002' > ids
show inkjet detokenize --tokenizer ranks.tiktoken < ids
