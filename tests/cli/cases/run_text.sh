# Text in and out through a tokenizer; the tiny model has ids that this tokenizer lacks, which show as U+FFFD.
set -e
go() { inkjet run -m "$MODEL" --tokenizer "$RANKS" -n 12 --ignore-eos "$@"; }
go 'hello world' | tee first
go -p 'hello world' | cmp - first
printf 'hello world' > file
go -f file | cmp - first
go -f - < file | cmp - first
go -p 'hello world' --ids-out
inkjet run -m "$MODEL" --tokenizer "$RANKS" 'hello world' -n 3 --ignore-eos --json --logprobs 2
