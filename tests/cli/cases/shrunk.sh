# A file of the model shrinks after it was opened, and before what it held is needed. The prompt comes through a pipe that the program opens
# once the model is open.
cp -r "$MODEL" model
mkfifo prompt
inkjet run -m model -f prompt --tokenizer "$RANKS" > out 2> err &
exec 3> prompt
for file in model/*.safetensors; do : > "$file"; done
echo 'hello world' >&3
exec 3>&-
wait $!
echo "exit $?"
cat out err
