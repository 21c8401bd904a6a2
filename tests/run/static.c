/* A program that loads no libraries, and so none of ferry-run's. */
int main(void) { return 5; }
