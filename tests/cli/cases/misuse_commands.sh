# Commands and arguments that do not exist: standard error, exit 2, and the nearest name where there is one.
show inkjet
show inkjet rum
show inkjet tokenise
show inkjet dance
show inkjet train
show inkjet --json
show inkjet --version now
show inkjet help runn
show inkjet help run twice
show inkjet completion
show inkjet completion fish
show inkjet run one two
show inkjet logits text
show inkjet info a b
show inkjet info a -m b
show inkjet man page
# What a terminal obeys is shown, not sent.
inkjet $'a\033[31m\302\233b\302\251' 2>&1 || true
ln -s "$MODEL" $'a\302\233b\302\251'
inkjet info -m $'a\302\233b\302\251' --json | grep -o '"path":"[^"]*"'
