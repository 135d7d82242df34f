#!/bin/bash
bash download.sh | tee download.log
bash seed.sh 1 && bash seed.sh 2
