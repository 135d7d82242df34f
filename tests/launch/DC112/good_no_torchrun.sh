# LOGLEVEL is what our own tool reads
export LOGLEVEL=debug
python tools/convert_checkpoint.py --to safetensors out/
