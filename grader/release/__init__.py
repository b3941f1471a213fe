"""Files that are handed out: the student bundle, which holds no solution, and the course of `grade init`.

Takes the exercises of a course and the grader's own folder; gives the bytes of each file by its path. It writes no
file, and `bundle` never reads a solution, a planted mistake or an honest variant.
"""
