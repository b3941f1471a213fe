"""A whole class: uploads become submissions, submissions records, and records marks.

| module | makes |
| --- | --- |
| `uploads`, `layouts` | an Upload of everything that was handed in together, and its owners |
| `submissions`, `roster` | a Submission for every student and exercise: the text to grade, or why there is none |
| `ledger` | a Task for every text without a stored result; records and journal of what comes back |
| `dask_workers`, `work` | a TaskOutcome of every Task, on workers that agree on their Terms |
| `store` | the files of OUT_DIR |
| `reading` | a Mark of every record, and the Gradebook of all |

Takes a folder or an archive of uploads, a roster and policies; gives the files of OUT_DIR, and a Gradebook of them. It
unpacks no archive to disk, follows no link, and never decides a check: `grading` does, in workers.

OUT_DIR/
  batch.json                        what was graded with what: exercises, students, submissions, late policy, overrides
  journal.jsonl                     one line per grading that ended, appended
  records/STUDENT/EXERCISE.json     the records (grade/result/v1), the truth that all tables are derived from
  cards/STUDENT/EXERCISE.html       the students' scorecards
  submissions/STUDENT/NAME.py       the texts that were graded
  results/KEY.json                  results by what they depend on, what a killed run goes on from; the instructor's
  secret.json                       the hidden seed, where there is one; the instructor's
"""
