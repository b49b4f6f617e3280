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

# What earlier runs left: nothing here, as no experts were read.
show inkjet info model --experts
show inkjet info model --experts --usage none
show inkjet info model --experts --tensors
show inkjet info model --usage here.usage
show inkjet info model --media x.png --experts
printf 'IJEXPUSE and then it broke off' > broken
show inkjet info model --experts --usage broken
show inkjet info -m model --experts --usage model/config.json --json

# A file about a model of this shape: 12 sessions, shares by Zipf's law with one expert of each layer never used.
cp "$FIXTURES/tiny.usage" here.usage
show inkjet info model --experts --usage here.usage
inkjet info model --experts --usage here.usage --json
# Counters as large as they can be, from whoever.
inkjet info model --experts --usage "$FIXTURES/tiny_full.usage" | grep '^hit rate'
inkjet info model --experts --usage "$FIXTURES/tiny_full.usage" --json | grep -o '"hit_rate":[^,]*'
show inkjet info model --experts --drive
show inkjet info model --experts --usage here.usage --ctx 100000000
few() { inkjet info model --experts --usage here.usage --threads 1 --home streamed --ctx 100 --mem "$@"; }
few 20M 2>&1 | sed -n -E 's#^(inkjet: model: )[0-9.]+ MB is needed.*#\1X is needed#p; /^(room|held first)/p'
few 24.8M | sed -n -E 's/^(room +)[1-9][0-9]? of 40 experts, [0-9.]+ [kM]B$/\1some of 40 experts/p; s/^(held first .* got) [1-9][0-9]\.[0-9] %/\1 some %/p'
