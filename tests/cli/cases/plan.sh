# What a model would take, said before it is loaded. Numbers of bytes are taken out of the texts: tests/unit/test_plan.c looks at them.
cp -R "$MODEL" model
chmod -R u+w model
sizes() { sed -E 's/[0-9.]+ (kB|MB|GB)/X/g; s/--mem [0-9]+M\b/--mem XM/; s/ +X/ X/g; s/^(  (machine|control group|process \(ulimit\)) +).*/\1.../'; }
plan() { show inkjet info model --plan --threads 1 "$@" | sizes; }
plan --mem 1G
plan --mem 1G --home resident --ctx 100 --kv bf16
plan --mem 60M --home streamed
plan --mem 25M --ctx 131072
plan --mem 10M
plan --home mapped | sed 's/bounded by the control group/bounded by the machine/'
json() { inkjet info model --plan --threads 1 --json "$@" 2> err | sed -E 's/"memory":\{.*\},"bound"/"memory":{...},"bound"/; s/(_bytes|_room|_expert|per_token)":[0-9.]+/\1":N/g' | sizes; sizes < err; }
json --mem 60M --home streamed
json --mem 10M
inkjet info model --plan --json | grep -c -E '"memory":\{"machine":\{"limit":[0-9]+,"free":[0-9]+\},"control_group":(null|\{"limit":[0-9]+,"free":[0-9]+\}),"process":(null|\{"limit":[0-9]+,"free":[0-9]+\})\},"bound":[0-9]+,'
rm -f out && inkjet info model --plan --drive --home streamed --mem 60M > out && grep -c -E '^  drive +[0-9.]+ (kB|MB|GB)/s: |^tokens per second, at most( +[0-9.e+]+){5}$' out
inkjet info model --plan --drive --json --mem 60M | grep -c -E '"drive_bytes_per_s":[0-9.e+]+,.*"max_tokens_per_s":[0-9]'
inkjet info --plan --drive --json 2> err | grep -o -e '"works":true' -e '"drive_error":{[^}]*}'; echo "exit ${PIPESTATUS[0]}"
show inkjet info --plan nowhere
show inkjet info model --mem 1G
show inkjet info model --drive
show inkjet info model --home streamed
show inkjet info model --kv bf16
show inkjet info model --plan --tensors
show inkjet info model --plan --media model
show inkjet info model --plan --experts
show inkjet info model --plan --ctx 10000000
for size in '' 0 -1 1.5 3g 3GB/s 3.G .5G 1e9 1.0000000001G 10000000000G 9223372036854775808 3KiBi 'G'; do show inkjet info model --plan --mem "$size"; done
for size in 12345 12345B 1.5k 1.5K 2KiB 2KB 1.25MiB 0.002G; do inkjet info model --plan --mem "$size" --json 2> /dev/null | grep -o '"bound":[0-9]*,"bound_by":"--mem"'; done
for size in 0.3T 2Ti 1000000000000; do inkjet info model --plan --mem "$size" 2>&1 | grep -c 'is not accepted'; done
ls | tr '\n' ' '
