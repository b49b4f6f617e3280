# What `inkjet chat` refuses before it needs a tokenizer with the control tokens of a conversation, and what it says without one.
ln -s "$MODEL" model
show inkjet chat -m model ''
show inkjet chat -m missing hello
show inkjet chat -m model hello
show inkjet chat -m model
show inkjet chat -m model --temp 0 --seed 1 hello
show inkjet chat -m model --penalty-window 4 hello
show inkjet chat -m model hello there
show inkjet chat -m model --ids 1,2 hello
ln -s "$RANKS" ranks.tiktoken
show inkjet chat -m model --tokenizer ranks.tiktoken hello
show inkjet chat -m model --tokenizer ranks.tiktoken --logit-bias 600:1 hello
