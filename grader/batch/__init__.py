"""A whole class: submissions found, graded, kept, and turned into marks.

OUT_DIR/
  batch.json                        what was graded with what: exercises, roster, late policy, overrides
  journal.jsonl                     one line per grading that ended, appended: what a killed run goes on from
  records/STUDENT/EXERCISE.json     the records (grade/result/v1), the truth that all tables are derived from
  cards/STUDENT/EXERCISE.html       the students' scorecards
"""
