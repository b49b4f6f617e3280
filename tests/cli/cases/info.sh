# What a checkpoint is. The memory of the caches is the library's business: only that it is stated.
ln -s "$MODEL" model
inkjet info model --ctx 1000 | sed -E 's/^(  --kv [a-z0-9]+ +)[0-9.]+ [kMG]?B/\1X/'
echo
inkjet info model --tensors | tail -n 8
echo
inkjet info -m model --json | sed -E 's/"session_bytes":\{"bf16":[1-9][0-9]*,"f16":[1-9][0-9]*,"f32":[1-9][0-9]*\}/"session_bytes":X/'
