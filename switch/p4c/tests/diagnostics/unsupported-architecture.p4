package Other();
Other() main;
