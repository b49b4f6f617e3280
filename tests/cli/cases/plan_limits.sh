# Bounds that this process cannot keep: a control group and ulimit, for real. Where the test may not make a group, or the program does not bear a limited
# address space (sanitizers, emulators), what would be said is printed instead: tests/unit has the same with made-up limits.
cp -R "$MODEL" model
chmod -R u+w model
groups=/sys/fs/cgroup/memory
[ -f "$groups/memory.limit_in_bytes" ] && limit=memory.limit_in_bytes || { groups=/sys/fs/cgroup limit=memory.max; }
group=$groups/inkjet-test-$$
inside() { (echo "$BASHPID" > "$group/cgroup.procs" && exec "$@"); }
if mkdir "$group" 2> /dev/null && echo 2000003072 > "$group/$limit" && inside true; then
  inside inkjet info model --plan --mem 3G > out 2>&1
  echo "exit $?"
  grep -o 'inkjet: .*' out
  inside inkjet info model --plan --threads 1 | grep -o 'bounded by .*\|control group  *2.00 GB'
  inside inkjet info model --plan --mem 1G | grep -o 'bounded by .*'
else
  echo 'exit 1
inkjet: model: --mem allows 3.00 GB, but the control group of this process no more than 2.00 GB in all: such a bound cannot be kept. Ask for at most that, or raise the limit of the group
control group             2.00 GB
bounded by the control group
bounded by --mem'
fi
rmdir "$group" 2> /dev/null
if bash -c '(ulimit -v 2000000; inkjet --version); exit $?' > /dev/null 2>&1; then
  (ulimit -v 2000000 && exec inkjet info model --plan --mem 3G > out 2>&1)
  echo "exit $?"
  grep -o 'inkjet: .*' out
  dd if=/dev/null of=long.gguf bs=1000000 seek=3000 2> /dev/null
  (ulimit -v 2000000 && exec inkjet info long.gguf --plan > out 2>&1)
  echo "exit $?"
  grep -o 'inkjet: .*' out
else
  echo 'exit 1
inkjet: model: --mem allows 3.00 GB, but the limits of this process (ulimit -v, -d) no more than 2.05 GB in all: such a bound cannot be kept. Ask for at most that, or raise the limit
exit 1
inkjet: long.gguf: cannot map the file: that takes 3000000000 bytes of addresses, though not of memory, and the limit of this process (ulimit -v) is 2048000000 bytes for everything: raise it, and bound memory by --mem or a control group'
fi
