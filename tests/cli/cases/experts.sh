# Options about experts that are read from disk, with a model that fits into memory: each says that it has no effect, or is refused.
ln -s "$MODEL" model
show inkjet run -m model --ids 1,2,3 -n 3 --usage here.usage
show inkjet run -m model --ids 1,2,3 -n 3 --usage none
show inkjet run -m model --ids 1,2,3 -n 3 --predict off
show inkjet run -m model --ids 1,2,3 -n 3 --predict sometimes
show inkjet run -m model --ids 1,2,3 -n 3 --trace-experts trace
show inkjet logits -m model --ids 1,2,3 --out x.safetensors --predict on
show inkjet bench -m model --trace-experts trace
show inkjet bench -m model --media --predict on
show inkjet tokenize -m model --usage none x
ls
