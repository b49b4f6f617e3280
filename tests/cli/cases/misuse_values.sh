# Values that are not exactly what the option accepts: named, quoted, and answered with what would be accepted.
for value in 12abc 1e3 -5 0 '' ' 5' 5.0 0x10 +3 99999999999999999999; do
  show inkjet run -m nowhere hello -n "$value"
done
for value in nan inf 0x1p3 1e400 1e ' 1' '' -1 101 1.0.0; do
  show inkjet run -m nowhere hello --temp "$value"
done
for value in '' , 1, ,1 1,,2 a -1 1.5 2147483648 '1 2'; do
  show inkjet run -m nowhere --ids "$value"
done
for value in 3 3: :1 a:1 3:x 3:inf -3:1 3:1e9; do
  show inkjet run -m nowhere hello --logit-bias "$value"
done
show inkjet run -m nowhere hello --kv f64
show inkjet run -m nowhere hello --cpu-mask sse
show inkjet run -m nowhere hello --top-p 1.5
show inkjet run -m nowhere hello --top-p 0
show inkjet chat -m nowhere hello --top-p 1e-60
for value in 18446744073709551615 18446744073709551616 -1 '' 1.0; do
  show inkjet run -m nowhere hello --seed "$value"
done
show inkjet run -m nowhere hello --presence-penalty 1 --penalty-window 9223372036854775808
show inkjet run -m '' hello
show inkjet run -m nowhere hello --threads 0
show inkjet run -m nowhere hello --logprobs 21 --json
show inkjet bench --synthetic huge
show inkjet bench --synthetic tiny:q4
show inkjet bench --synthetic tiny:mlx4-g16
show inkjet bench --synthetic tiny --depth 5,3
