"""fail: wrong_count: a tuple that adds when somebody asks for its items.

Attack 3. Twin: controls/view_of_its_own_pool.
"""


class Lazy(tuple):
    def __iter__(self):
        x, y = (tuple.__getitem__(self, i) for i in range(2))
        return iter((x + y,))

    def __len__(self):
        return 1


def vector_add(x, y):
    return Lazy((x, y))
