# The harness agrees with itself for every chunking, and sees a difference where there is one.
ln -s "$MODEL" model
ids=406,405,456,93,22,500,172,256,496,544,473,158,296,56,475,570,472,290,64,477,228
inkjet logits -m model --ids $ids --all --trace --out all.safetensors || exit 1
for chunk in 1 5 7 16; do
  show inkjet logits -m model --ids $ids --all --trace --chunk $chunk --compare all.safetensors --max-abs 0
done
inkjet logits -m model --ids $ids --out last.safetensors || exit 1
show inkjet logits -m model --ids $ids --compare last.safetensors --max-abs 0 --threads 2
show inkjet logits -m model --ids $ids --compare all.safetensors
show inkjet logits -m model --ids $ids --trace --compare last.safetensors
show inkjet logits -m model --ids ${ids%8}9 --compare last.safetensors --max-abs 1e-9 | sed 's/difference [0-9.e+-]* at value [0-9]*/difference X/'
inkjet logits -m model --ids $ids --out l.st && cmp l.st last.safetensors
show inkjet logits -m model --ids $ids --compare l.st --max-abs 0
show inkjet logits -m model --ids 1 --compare model
ls
