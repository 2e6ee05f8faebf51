"""Something kept per object for as long as the object lives, and not a moment longer."""
import threading
import weakref


class WeakCache(object):
    """Maps live objects, by identity, to values.

    Unlike ``WeakKeyDictionary`` it never calls the object's ``__eq__`` or ``__hash__``, which a model's class may define.
    A value must not hold a strong reference to its object.
    """

    def __init__(self):
        self._values = {}
        self._lock = threading.RLock()

    def get(self, owner, default=None):
        entry = self._values.get(id(owner))
        return entry[1] if entry is not None and entry[0]() is owner else default

    def set(self, owner, value):
        key = id(owner)
        values = self._values

        def forget(reference):
            # The id may belong to a new object already.
            if values.get(key, (None,))[0] is reference:
                values.pop(key, None)

        with self._lock:
            values[key] = (weakref.ref(owner, forget), value)
        return value

    def setdefault(self, owner, make):
        """The value of ``owner``, made by ``make()`` if it has none; concurrent callers make it once."""
        value = self.get(owner)
        if value is None:
            with self._lock:
                value = self.get(owner)
                if value is None:
                    value = self.set(owner, make())
        return value

    def clear(self):
        with self._lock:
            self._values.clear()

    def __len__(self):
        return len(self._values)
