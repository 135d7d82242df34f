CUDA_VISIBLE_DEVICES="" python tools/make_index.py
CUDA_VISIBLE_DEVICES=-1 python tools/make_index.py
CUDA_VISIBLE_DEVICES= python -m pytest tests
