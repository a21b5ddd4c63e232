"""`python -m horizonfree` is `horizonfree`."""

from horizonfree.cli import main

if __name__ == "__main__":
    main()
