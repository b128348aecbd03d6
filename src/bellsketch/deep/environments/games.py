"""The Atari games of the paper."""

NAMES = (
    "alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider berzerk bowling boxing"
    " breakout centipede chopper_command crazy_climber defender demon_attack double_dunk enduro fishing_derby"
    " freeway frostbite gopher gravitar hero ice_hockey jamesbond kangaroo krull kung_fu_master montezuma_revenge"
    " ms_pacman name_this_game phoenix pitfall pong private_eye qbert riverraid road_runner robotank seaquest"
    " skiing solaris space_invaders star_gunner surround tennis time_pilot tutankham up_n_down venture"
    " video_pinball wizard_of_wor yars_revenge zaxxon"
)
GAMES = tuple(NAMES.split())
"""By the names of their files in ALE."""
