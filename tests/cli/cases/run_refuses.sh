# What only the model or the tokenizer can refuse.
ln -s "$MODEL" model
show inkjet run -m model hello
show inkjet run -m model --ids 1,600
show inkjet run -m model --ids 1,2,3 --ctx 2
show inkjet run -m model --ids 1,2,3 --ctx 5000
show inkjet run -m model --ids 1,2,3 --ctx 4 -n 8
show inkjet run -m model --ids 1 --logit-bias 600:1
show inkjet run -m nowhere --ids 1
show inkjet run -m model --tokenizer nowhere hello
show inkjet run -m model --tokenizer model hello
cp "$RANKS" ranks.tiktoken
: > empty
show inkjet run -m model --tokenizer ranks.tiktoken -f empty
show inkjet run -m model --tokenizer ranks.tiktoken -f missing
show inkjet logits -m model --ids 1,2,3 --ctx 2 --out x
show inkjet logits -m model --ids 1,2,3 --out no/such/folder/x
show inkjet info model --ctx 5000
show inkjet bench -m model --depth 4090
ls
