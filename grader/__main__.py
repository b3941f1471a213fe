"""Run the command line as `python -m grader`: the same as the console script `grade`."""

from grader.cli.main import main

if __name__ == "__main__":
    main()
