# A request to end comes while tokens are printed: the line ends, nothing follows, the exit code says why.
# (Ctrl-C itself is ignored in what a script starts in the background, so SIGTERM stands for it.)
mkfifo pipe
inkjet run -m "$MODEL" --ids 1,2,3 -n 4000 --ignore-eos > pipe &
exec 3< pipe
IFS= read -r -n 4 -u 3 start
kill -TERM $!
rest=$(cat <&3; echo .)
wait $!
echo "exit $?"
[[ $rest == *$'\n.' ]] && echo "the line is ended"
[[ -n $start ]] && echo "there was something before"
# The temporary checkpoint of a benchmark does not survive either (a full disk ends it before it begins: nothing to see then).
export TMPDIR=$PWD/temporary
mkdir temporary
inkjet bench --synthetic 3b 2> message &
until [[ -s message ]] || ls temporary/*/*.part-* > /dev/null 2>&1; do sleep 0.05; done
kill -TERM $! 2> /dev/null
wait $!
rc=$?
grep -q 'GB of disk' message && rc=130
echo "exit $rc"
ls temporary
