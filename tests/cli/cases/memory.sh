# A context for which there is no memory is refused with numbers, not tried.
cp -R "$MODEL" model
chmod -R u+w model
sed 's/"model_max_length": *[0-9]*/"model_max_length": 1099511627776/' model/config.json > config && cp config model/config.json
refused() {
  "$@" > out 2> err
  echo "exit $?, $(wc -c < out | tr -d ' ') bytes"
  sed -E 's/[0-9.]+ [GM]B/N/g; s/--ctx [0-9]+/--ctx N/g; s/and the .* leaves/and the bound leaves/' err
}
refused inkjet run -m model --ids 1 -n 2 --ctx 1000000000000
refused inkjet run -m model --ids 1 -n 1000000000000
refused inkjet run -m model --ids 1 -n 2 --ctx 1000000000000 --kv f32 --json
refused inkjet logits -m model --ids 1 --ctx 1000000000000 --out x
refused inkjet bench -m model --prompt 1 --gen 1 --ctx 1000000000000
refused inkjet info model --ctx 1000000000000
ls
