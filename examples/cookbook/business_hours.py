from datetime import datetime, timedelta, timezone

from mooring.framework import Args, Plugin, unresolvable


class BusinessHoursArgs(Args):
    label: str = "run"  # pods with run=off-hours wait
    opens: int = 8
    closes: int = 18
    utc_offset_hours: int = 0


class BusinessHours(Plugin[BusinessHoursArgs]):
    """Hold pods labelled `run=off-hours` back until work is over."""

    name = "BusinessHours"

    def pre_enqueue(self, pod):
        if pod.labels.get(self.args.label) != "off-hours":
            return None
        zone = timezone(timedelta(hours=self.args.utc_offset_hours))
        now = datetime.fromtimestamp(self.handle.now(), zone)
        if now.weekday() >= 5 or not self.args.opens <= now.hour < self.args.closes:
            return None
        end = now.replace(hour=self.args.closes, minute=0, second=0, microsecond=0)
        return unresolvable(f"waits until {end:%H:%M}", not_before=end.timestamp())

    def events_to_register(self):
        return []  # only the time helps
