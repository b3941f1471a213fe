"""A whole class: submissions found, graded, kept, and turned into marks.

OUT_DIR/
  batch.json                        what was graded with what: exercises, roster, submissions, late policy, overrides
  journal.jsonl                     one line per grading that ended, appended
  records/STUDENT/EXERCISE.json     the records (grade/result/v1), the truth that all tables are derived from
  cards/STUDENT/EXERCISE.html       the students' scorecards
  submissions/STUDENT/NAME.py       the texts that were graded
  results/KEY.json                  results by what they depend on, what a killed run goes on from; the instructor's
  secret.json                       the hidden seed, where there is one; the instructor's

`reading.read(OUT_DIR)` makes the gradebook of it.
"""
