control c() { action a() { } }
