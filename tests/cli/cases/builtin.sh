# The model that the program carries: without -m every command uses it. The same bits on every processor, so the words can be told beforehand.
samples=$FIXTURES/../../demo/samples
ln -s "$samples/star.gif" star.gif
ln -s "$samples/words.wav" words.wav
show inkjet run 'Once upon a time' -n 40
show inkjet run 'Once upon a time' -n 8 --temp 1 --seed 3
show inkjet chat 'What is the capital of France?'
show inkjet chat --image star.gif 'What is in the picture?'
show inkjet chat --audio words.wav 'What was said?'
show inkjet tokenize 'Once upon a time'
show inkjet detokenize 2219 400 337 716
