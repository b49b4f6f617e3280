# Options that are unknown, repeated or contradict each other: nothing is ever ignored.
show inkjet run --picture cat.png hello
show inkjet run --memory 5 hello
show inkjet run --tensors hello
show inkjet run --top-kk 3 hello
show inkjet run --tem 3 hello
show inkjet run -x hello
show inkjet run hello -n
show inkjet run --ids
show inkjet run hello --json=yes
show inkjet run hello --top-k 3 --top-k 3
show inkjet run hello --verbose --verbose
show inkjet run -m nowhere
show inkjet run -m nowhere ''
show inkjet run -m nowhere -p hello --ids 1
show inkjet run -m nowhere --ids 1 --special
show inkjet run -m nowhere hello --temp 0 --top-p 0.5
show inkjet run -m nowhere hello --logprobs 3
show inkjet run -m nowhere hello --penalty-window 3
show inkjet run -m nowhere hello --json --ids-out
show inkjet logits -m nowhere --ids 1
show inkjet logits -m nowhere --ids 1 --out x --max-abs 1
show inkjet tokenize -m a --tokenizer b hello
show inkjet tokenize --tokenizer b hello --special --no-special
show inkjet tokenize --tokenizer b hello -f file
show inkjet bench -m a --synthetic tiny
show inkjet bench -m a --keep b
