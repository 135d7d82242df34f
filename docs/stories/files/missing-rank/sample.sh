#!/bin/bash
# draws the samples of the paper
python sample.py
