"""`tracebraid capture -- COMMAND`: the command with an environment in which its Python processes capture themselves."""
