from .metrics import error as error
