# What is said about files without a model, and what is refused before one is opened.
ln -s "$MODEL" model
ln -s "$RANKS" ranks.tiktoken
{
  printf 'RIFF\x64\x06\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\x40\x06\0\0'
  for ((i = 0; i < 800; i++)); do printf "\\x$(printf %02x $((i * 7 % 256)))\\x0$((i % 8))"; done
} > note.wav
printf 'GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0;' > dot.gif
head -c 100 note.wav > cut.wav
show inkjet info --media note.wav
show inkjet info --media note.wav --json
show inkjet info --media dot.gif
show inkjet info --media dot.gif --json
show inkjet info --media cut.wav
show inkjet info --media missing.png
show inkjet info --media dot.gif --tensors
show inkjet info --max-long-edge 40 model
show inkjet info --video-sound model
show inkjet info --media dot.gif --video-fps 1
show inkjet info --media dot.gif model
show inkjet embed
show inkjet embed --image dot.gif
show inkjet embed --image dot.gif --audio note.wav --out rows.st
show inkjet embed --image dot.gif --image dot.gif --out rows.st
show inkjet embed -m model --image dot.gif --out rows.st
show inkjet embed -m missing --image dot.gif --out rows.st
show inkjet embed --video dot.gif --out rows.st
show inkjet run -m model --image dot.gif --ids 1
show inkjet run -m model --image dot.gif 'x <__media__>'
show inkjet run -m model --tokenizer ranks.tiktoken --image dot.gif x
show inkjet run -m model --tokenizer ranks.tiktoken 'x <__media__>'
show inkjet run -m model --tokenizer ranks.tiktoken --audio note.wav 'x <__media__> <__media__>'
show inkjet run -m model --video-stills x
show inkjet run --image '' x
show inkjet run --max-long-edge 0 x
ls
