python train.py --gpus 4
python helper.py
