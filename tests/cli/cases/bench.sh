# The numbers are the machine's; their names and their order are ours.
inkjet bench -m "$MODEL" --home streamed --prompt 20 --gen 3 --repeat 2 --depth 10,40 --json 2> /dev/null | sed -E 's/:-?[0-9][0-9.e+-]*/:N/g; s/"level":"[a-z0-9]*"/"level":"L"/; s/"version":"[0-9.]*"/"version":"V"/; s/"(io_uring|pread threads)","direct":(true|false)/"R","direct":B/'

# Towers: the model of these cases has none.
show inkjet bench -m model --media --repeat 1
show inkjet bench -m model --media --gen 3
show inkjet bench -m model --mmproj towers.gguf
show inkjet bench --media --synthetic towers:q4_0
