# The files of a mapped model shrink while tokens are printed: the next one needs what they held.
cp -r "$MODEL" model
mkfifo pipe
inkjet run -m model --home mapped --ids 1,2,3 -n 4000 --ignore-eos > pipe 2> err &
exec 3< pipe
IFS= read -r -n 4 -u 3 start
for file in model/*.safetensors; do : > "$file"; done
cat <&3 > rest
wait $!
echo "exit $?"
cat err
# Streamed, it is an error of the step: what was printed ends with its line, and the exit code says that it is not all.
cp "$MODEL"/*.safetensors model
inkjet run -m model --home streamed --ids 1,2,3 -n 4000 --ignore-eos > pipe 2> err &
exec 3< pipe
IFS= read -r -n 4 -u 3 start
for file in model/*.safetensors; do : > "$file"; done
rest=$(cat <&3; echo .)
wait $!
echo "exit $?"
[[ $rest == *$'\n.' ]] && echo "the line is ended"
grep -c 'safetensors: .*start' err
