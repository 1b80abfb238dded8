# Somebody who writes shell scripts, too, doesn't mind.
#defin A 1
