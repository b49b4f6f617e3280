# A model whose experts are read from disk: what is kept beside it, what is said, and what can be shown of it. The answer is that of the mapped model.
cp -r "$MODEL" model
ask() { inkjet run -m model --ids 1,2,3,4,5,6,7,8 -n 20 --threads 1 "$@"; }
streamed() { ask --home streamed --predict off "$@" 2>&1 | sed '/^plan:/d'; }
told() { inkjet info model --experts "$@" | sed -n -E 's/^(read +).*/\1X/; 1,4p'; }
ask
streamed
told
streamed --usage other.usage > /dev/null
streamed --usage none > /dev/null
told
told --usage other.usage

echo 'where it cannot be kept'
streamed --usage nowhere/x.usage
streamed --usage model/config.json
grep -c architectures model/config.json
head -c 100 other.usage > cut.usage
streamed --usage cut.usage
told --usage cut.usage
ls

echo 'the sequence'
streamed --usage none --trace-experts trace > /dev/null
head -n 1 trace
n=$(($(wc -c < trace) - $(head -n 1 trace | wc -c)))
echo "$((n / 4)) accesses, $((n % 4)) bytes too many"
streamed --usage none --trace-experts nowhere/trace

echo 'numbers'
streamed --usage none --verbose | sed -n -E '/^experts/,$s/[0-9.]+( [kM]?B|%)?/N/gp' | sed -E 's/(io_uring|pread threads)( past the page cache)?/R/'
ls model
