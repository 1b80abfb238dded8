#defin A 1
