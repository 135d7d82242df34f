#!/bin/sh
python main.py --epochs 90
