# The files of a mapped model shrink while tokens are printed: the next one needs what they held. The tokens asked for are more than a pipe holds, so
# that the program is still there, however late this script is.
cp -r "$MODEL" model
chmod -R u+w model
sed 's/"model_max_length": *[0-9]*/"model_max_length": 1000000/' model/config.json > config && mv config model/config.json
mkfifo pipe
begin() {
  cp "$MODEL"/*.safetensors model
  inkjet run -m model "$@" --ids 1,2,3 -n 100000 --ignore-eos > pipe 2> err &
  exec 3< pipe
  IFS= read -r -n 4 -u 3 start
  for file in model/*.safetensors; do : > "$file"; done
  rest=$(cat <&3; echo .)
  wait $!
  echo "exit $?"
}
begin --home mapped
cat err
# Streamed, it is an error of the step: what was printed ends with its line, and the exit code says that it is not all.
begin --home streamed
[[ $rest == *$'\n.' ]] && echo "the line is ended"
grep -c 'safetensors: .*start' err
