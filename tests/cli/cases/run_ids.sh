# Greedy ids, and that nothing but the model and the prompt decides them.
set -e
prompt=406,405,456,93,22,500,172,256,496,544,473,158,296,56,475,570,472,290,64,477,228
go() { inkjet run -m "$MODEL" --ids "$prompt" -n 40 --ignore-eos "$@"; }
go | tee first
go --ids-out | cmp - first
go --threads 1 | cmp - first
go --threads 3 | cmp - first
go --cpu-mask scalar | cmp - first
go --ctx 100 | cmp - first
go --temp 0 | cmp - first
# A draw depends on the seed and the position.
go --seed 5 | tee drawn
go --seed 5 --threads 3 | cmp - drawn
if go --seed 6 | cmp -s - drawn; then echo "another seed gave the same draw"; fi
go --seed 18446744073709551615 | tee drawn
if go --seed 9223372036854775807 | cmp -s - drawn; then echo "another seed gave the same draw"; fi
go --seed 5 --top-k 1 | cmp - first
# Key types are allowed to change the result, not to fail.
for type in f32 f16; do go --kv "$type" | wc -w; done
# Ids that are forbidden do not come.
set -- $(cat first)
go --logit-bias "$1:-inf" | grep -cw -- "$1" || true
