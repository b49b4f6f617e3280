# Commands keep to a plan: what cannot work is refused before anything is loaded, what is streamed is announced, and says the same as what is mapped.
cp -R "$MODEL" model
chmod -R u+w model
sizes() { sed -E 's/[0-9.]+ (kB|MB|GB)/X/g; s/--mem [0-9]+M\b/--mem XM/g; s/plan: +/plan: /'; }
show inkjet run -m model --ids 1,2,3 -n 4 --mem 10M | sizes
show inkjet run -m model --ids 1,2,3 -n 4 --ctx 100 --home mapped --mem 10M | sizes
show inkjet logits -m model --ids 1,2,3 --out x --mem 10M | sizes
show inkjet logits -m model --ids 1,2,3 --all --trace --out x --mem 10M --home resident | sizes
inkjet run -m model --ids 1,2,3 -n 12 > mapped
for home in resident streamed; do
  inkjet run -m model --ids 1,2,3 -n 12 --home $home --mem 60M --usage none > out 2> err
  echo "$home: exit $?"
  cmp mapped out && sizes < err
done
# More than any machine has, which a control group may forbid: then that is said (plan_limits.sh).
inkjet run -m model --ids 1,2,3 -n 12 --verbose --mem 900T > out 2> err
grep -q 'such a bound cannot be kept' err && echo 'inkjet: warning: --mem allows X, but the machine leaves X now: that is the bound
plan: X (the machine), weights are mapped: X and experts X, caches X, buffers X' || grep -E '^(plan|inkjet: warning)' err | sizes
# Few descriptors by default are no reason to fail, as long as the system would give more.
(ulimit -Sn 14; inkjet run -m "$FIXTURES/gguf-split/split-Q4_K_M-00001-of-00004.gguf" --ids 1,2,3 -n 2 --home streamed --usage none > out 2> err)
echo "few descriptors: exit $?"
# With a bound there is room to read pictures of some size and no larger: one of 16 million pixels, of which only the head is there.
printf 'GIF89a\xa0\x0f\xa0\x0f\x80\x00\x00\x00\x00\x00\x00\x00\x00\x2c\x00\x00\x00\x00\xa0\x0f\xa0\x0f\x00\x02\x00\x3b' > big.gif
for bound in '--mem 400M' ''; do inkjet run --image big.gif $bound --max-long-edge 400 -n 1 'see <__media__>' 2>&1 | sed -E 's/^.*big.gif: //; s/[0-9]{8}$/N/'; done
# A part of the program has no file to read from, which more memory does not change.
show inkjet run --home streamed --ids 1,2,3
show inkjet info --plan --home streamed
ls
