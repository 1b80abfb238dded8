#error choose a version
