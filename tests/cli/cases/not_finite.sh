# One weight of a router that is not finite: its expert must not silently go unchosen. The other matrices tell by the layer's output.
cp -R "$MODEL" model
chmod -R u+w model
shard=model/model-00002-of-00004.safetensors
header=$(od -An -tu4 -N4 $shard | tr -d ' ')
spoil() { # tensor, octal bytes of its first BF16 value
  local begin
  begin=$(head -c $((8 + header)) $shard | tail -c "$header" | sed "s/.*\"$1\":{[^}]*\"data_offsets\":\[\([0-9]*\),.*/\1/")
  printf "$2" | dd of=$shard bs=1 seek=$((8 + header + begin)) conv=notrunc 2> /dev/null
  show inkjet run -m model --ids 1,2 -n 2
  cp "$MODEL/${shard##*/}" $shard
}
spoil model.llm.layers.3.mlp.gate.weight '\300\177'
spoil model.llm.layers.3.mlp.gate.weight '\200\177'
spoil model.llm.layers.3.mlp.gate.weight '\200\377'
spoil model.llm.layers.4.attn.wq_du.weight '\300\177'
spoil model.llm.layers.3.attn_norm.weight '\300\177'
