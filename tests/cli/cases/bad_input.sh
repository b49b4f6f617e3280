# Files that are not what they should be: one message on standard error, exit 3.
cp -R "$MODEL" model
chmod -R u+w model
bad() {
  inkjet run -m model --ids 1 -n 1 > out 2> err
  echo "$1: exit $?, $(wc -c < out | tr -d ' ') bytes, $(grep -c '^inkjet: ' err) message"
  rm -rf model
  cp -R "$MODEL" model
}
shard=model/model-00002-of-00004.safetensors
head -c 100000 $shard > short && cp short $shard && bad "truncated shard"
rm $shard && bad "missing shard"
printf garbage > $shard && bad "garbage shard"
: > $shard && bad "empty shard"
rm model/config.json && bad "no config"
echo '{"a": [1, 2' > model/config.json && bad "broken config"
echo '{}' > model/config.json && bad "empty config"
sed 's/"gate_activation": "sigmoid"/"gate_activation": "softmax"/' model/config.json > c && cp c model/config.json && bad "softmax router"
sed 's/"hidden_size": 64/"hidden_size": 128/' model/config.json > c && cp c model/config.json && bad "other width"
printf garbage > bad.safetensors
inkjet logits -m "$MODEL" --ids 1 --compare bad.safetensors 2> err
echo "bad reference: exit $?"
inkjet logits -m "$MODEL" --ids 1 --compare missing.safetensors 2> err
echo "missing reference: exit $?"
printf garbage > bad.tiktoken
inkjet tokenize --tokenizer bad.tiktoken hello 2> err
echo "bad ranks: exit $?"
