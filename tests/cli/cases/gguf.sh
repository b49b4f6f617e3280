# A GGUF model is named by any of its parts, and has its tokenizer with it.
cp "$FIXTURES"/gguf-split/split-*.gguf .
show inkjet tokenize -m split-Q4_K_M-00003-of-00004.gguf 'hehe hi'
show inkjet tokenize -m . --special '<|t300|>he'
show inkjet tokenize --tokenizer split-Q4_K_M-00001-of-00004.gguf ''
inkjet tokenize -m . 'he said: "hi"' | inkjet detokenize -m .
echo
show inkjet run -m split-Q4_K_M-00002-of-00004.gguf --temp 0 -n 5 --ids-out 'hehe hi'
show inkjet run -m . --temp 0 -n 5 --ids 256,256,32,104,105 --ids-out
inkjet info . | grep -E '^(tokenizer|files)'
mv split-Q4_K_M-00004-of-00004.gguf x
show inkjet tokenize -m . 'he'
show inkjet run -m split-Q4_K_M-00001-of-00004.gguf -n 1 'he'
mv x other.gguf
show inkjet tokenize -m . 'he'
show inkjet info other.gguf
show inkjet tokenize -m other.gguf he
true
